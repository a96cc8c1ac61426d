import type { HelloMeta } from '../../schemas/link.ts'
import type { NodeReport, NodeSharing } from '../../schemas/node.ts'
import { emit } from '../events.ts'
import { GatewayLink, type GatewayLinkOptions } from './gateway-link.ts'

export interface LinksOptions extends Omit<GatewayLinkOptions, 'url' | 'onHello'> {
  /** The configured gateway: the way back when every gateway of the list is gone. */
  home: string
  gateways: readonly string[]
  onGateways: (gateways: readonly string[]) => void
  onDraining: (draining: boolean) => void
  onSharing: (sharing: NodeSharing) => void
  onPinned: (modelKeys: readonly string[]) => void
  /** How long the node goes without any link before it tries `home` as well. */
  homelessMs?: number
}

const REPORT_MS = 1_000
/** A report goes out at least so often, changed or not: it is the node's sign of life. */
const LONGEST_SILENCE = 3

/** So long without any link, and the list that the last gateway left behind is not believed any more. */
const HOMELESS_MS = 15_000

/** One link per gateway; the list of gateways comes over the links themselves. */
export class Links {
  readonly #options: LinksOptions
  readonly #links = new Map<string, GatewayLink>()
  readonly #timer: NodeJS.Timeout
  #lastReport = ''
  #silence = 0
  #linkedAt = performance.now()

  constructor(options: LinksOptions) {
    this.#options = options
    this.#setGateways(options.gateways)
    options.models.onChange((model) => {
      for (const link of this.#links.values()) link.tellModel(model)
    })
    this.#timer = setInterval(() => this.#report(), REPORT_MS)
  }

  /** Addresses of the gateways, those with an open link first. */
  get gateways(): readonly string[] {
    const links = [...this.#links.values()]
    return links.toSorted((a, b) => Number(b.isOpen) - Number(a.isOpen)).map(({ url }) => url)
  }

  get openCount(): number {
    return [...this.#links.values()].filter(({ isOpen }) => isOpen).length
  }

  /** Tells every gateway how things stand, now. */
  reportNow(): void {
    this.#lastReport = ''
    this.#report()
  }

  close(): void {
    clearInterval(this.#timer)
    for (const link of this.#links.values()) link.close()
  }

  #report(): void {
    this.#stayInReach()
    const report: NodeReport = this.#options.report()
    const text = JSON.stringify({ report })
    if (text === this.#lastReport && ++this.#silence < LONGEST_SILENCE) return
    this.#lastReport = text
    this.#silence = 0
    const body = Buffer.from(text)
    for (const link of this.#links.values()) link.tellReport(body)
  }

  /** Gateways may all have moved while none was there to say so. */
  #stayInReach(): void {
    const { home, log, homelessMs = HOMELESS_MS } = this.#options
    if (this.openCount > 0) this.#linkedAt = performance.now()
    const hasHome = this.#links.has(home)
    if (hasHome || performance.now() - this.#linkedAt < homelessMs) return
    emit(log, 'link.unanswered', { gateway: home })
    this.#open(home)
  }

  #hello({ gateways, draining, sharing, pinned }: HelloMeta): void {
    if (draining !== undefined) this.#options.onDraining(draining)
    if (sharing) this.#options.onSharing(sharing)
    if (pinned) this.#options.onPinned(pinned)
    // An empty list means that nobody knows better, not that there is no gateway.
    if (!gateways?.length) return
    this.#setGateways(gateways)
    this.#options.onGateways(gateways)
  }

  #setGateways(urls: readonly string[]): void {
    const wanted = new Set(urls.map((url) => url.replace(/\/$/, '')))
    for (const [url, link] of this.#links) {
      if (wanted.has(url)) continue
      link.close()
      this.#links.delete(url)
    }
    for (const url of wanted) {
      if (!this.#links.has(url)) this.#open(url)
    }
  }

  #open(url: string): void {
    this.#links.set(url, new GatewayLink({ ...this.#options, url, onHello: (hello) => this.#hello(hello) }))
  }
}
