/** An event of a pull, as engines report it for each layer. */
export interface PullEvent {
  id?: string
  status?: string
  error?: string
  progressDetail?: { current?: number; total?: number }
}

/** Computes the downloaded share of an image from the events of its layers. */
export class PullProgress {
  readonly #layers = new Map<string, { current: number; total: number }>()
  #share = 0

  /** Returns the share after an event. It never falls, although the engine learns of further layers later. */
  note({ id, status, progressDetail: { current, total } = {} }: PullEvent): number {
    const layer = this.#layers.get(id ?? '')
    if (id !== undefined && status === 'Downloading' && total) {
      this.#layers.set(id, { current: current ?? 0, total })
    } else if (layer && status === 'Download complete') layer.current = layer.total
    let [downloaded, all] = [0, 0]
    for (const one of this.#layers.values()) {
      downloaded += one.current
      all += one.total
    }
    if (all > 0) this.#share = Math.max(this.#share, downloaded / all)
    return this.#share
  }
}
