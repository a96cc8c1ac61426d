/** How far a download is, as told to whoever waits for the model. */
export interface DownloadProgress {
  bytes_downloaded: number
  bytes_total: number
  download_speed_mbps: number
  eta_seconds: number | null
  /** Seconds for which the download waits because the other side limits its rate. */
  rate_limited_s?: number
}

/** Counts bytes and tells at most four times a second. */
export class DownloadMeter {
  readonly #total: number
  readonly #tell: (progress: DownloadProgress) => void
  readonly #startedAt = performance.now()
  #done = 0
  #fetched = 0
  #toldAt = 0
  #limitedS = 0

  constructor(total: number, tell: (progress: DownloadProgress) => void) {
    this.#total = total
    this.#tell = tell
  }

  skip(bytes: number): void {
    this.#done += bytes
  }

  add(bytes: number): void {
    this.#done += bytes
    this.#fetched += bytes
    const now = performance.now()
    if (now - this.#toldAt < 250 && this.#done < this.#total) return
    this.#toldAt = now
    this.#say()
  }

  /** The other side lets nobody download for so many seconds; 0 when it does again. */
  wait(seconds: number): void {
    this.#limitedS = seconds
    this.#say()
  }

  #say(): void {
    const now = performance.now()
    const perSecond = this.#fetched / Math.max(0.001, (now - this.#startedAt) / 1000)
    const left = Math.max(0, this.#total - this.#done)
    this.#tell({
      bytes_downloaded: Math.min(this.#done, this.#total),
      bytes_total: this.#total,
      download_speed_mbps: Math.round((perSecond * 8) / 1e4) / 100,
      eta_seconds: perSecond > 0 ? Math.round((left / perSecond) * 10) / 10 : null,
      ...(this.#limitedS > 0 && { rate_limited_s: this.#limitedS }),
    })
  }
}
