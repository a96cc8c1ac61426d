/** The progress of a download, as reported to callers that wait for the model. */
export interface DownloadProgress {
  bytes_downloaded: number
  bytes_total: number
  download_speed_mbps: number
  eta_seconds: number | null
  /** Seconds for which the download is waiting because the remote side limits its rate. */
  rate_limited_s?: number
}

/** Counts bytes and reports the progress at most four times a second. */
export class DownloadMeter {
  readonly #total: number
  readonly #onProgress: (progress: DownloadProgress) => void
  readonly #startedAt = performance.now()
  #done = 0
  #fetched = 0
  #reportedAt = 0
  #limitedS = 0

  constructor(total: number, onProgress: (progress: DownloadProgress) => void) {
    this.#total = total
    this.#onProgress = onProgress
  }

  /** Counts bytes that are already on the disk. */
  skip(bytes: number): void {
    this.#done += bytes
    this.#reportInTime()
  }

  /** Counts bytes that have arrived. */
  add(bytes: number): void {
    this.#done += bytes
    this.#fetched += bytes
    this.#reportInTime()
  }

  #reportInTime(): void {
    const now = performance.now()
    if (now - this.#reportedAt < 250 && this.#done < this.#total) return
    this.#reportedAt = now
    this.#report()
  }

  /** Reports that the remote side limits the rate for `seconds`; 0 when the download continues. */
  wait(seconds: number): void {
    this.#limitedS = seconds
    this.#report()
  }

  #report(): void {
    const now = performance.now()
    const perSecond = this.#fetched / Math.max(0.001, (now - this.#startedAt) / 1000)
    const remainingBytes = Math.max(0, this.#total - this.#done)
    this.#onProgress({
      bytes_downloaded: Math.min(this.#done, this.#total),
      bytes_total: this.#total,
      download_speed_mbps: Math.round((perSecond * 8) / 1e4) / 100,
      eta_seconds:
        remainingBytes === 0 ? 0 : perSecond > 0 ? Math.round((remainingBytes / perSecond) * 10) / 10 : null,
      ...(this.#limitedS > 0 && { rate_limited_s: this.#limitedS }),
    })
  }
}
