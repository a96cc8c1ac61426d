import type { HelloMeta } from '../../schemas/link.ts'
import type { NodeReport, NodeSharing } from '../../schemas/node.ts'
import { emit } from '../events.ts'
import { GatewayLink, type GatewayLinkOptions } from './gateway-link.ts'

export interface LinksOptions extends Omit<GatewayLinkOptions, 'url' | 'onHello'> {
  /** The configured gateway, which is used when every gateway of the list is gone. */
  home: string
  gateways: readonly string[]
  onGateways: (gateways: readonly string[]) => void
  onDraining: (draining: boolean) => void
  onSharing: (sharing: NodeSharing) => void
  onPinned: (modelKeys: readonly string[]) => void
  /** Called with models that the platform has deleted. */
  onForget: (modelKeys: readonly string[]) => void
  /** The time without any link after which `home` is tried as well. */
  homelessMs?: number
}

const REPORT_MS = 1_000
/** A report is sent at least this often, changed or not, because it shows that the node is alive. */
const LONGEST_SILENCE = 3

/** After this time without any link, the last list of gateways is no longer trusted. */
const HOMELESS_MS = 15_000

/** One link per gateway; the list of gateways arrives over the links themselves. */
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

  /** The addresses of the gateways, those with an open link first. */
  get gateways(): readonly string[] {
    const links = [...this.#links.values()]
    return links.toSorted((a, b) => Number(b.isOpen) - Number(a.isOpen)).map(({ url }) => url)
  }

  get openCount(): number {
    return [...this.#links.values()].filter(({ isOpen }) => isOpen).length
  }

  /** Sends a report to every gateway now. */
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

  /** All gateways may have moved while no link was open to announce it. */
  #stayInReach(): void {
    const { home, log, homelessMs = HOMELESS_MS } = this.#options
    if (this.openCount > 0) this.#linkedAt = performance.now()
    const hasHome = this.#links.has(home)
    if (hasHome || performance.now() - this.#linkedAt < homelessMs) return
    emit(log, 'link.unanswered', { gateway: home })
    this.#open(home)
  }

  #hello({ gateways, draining, sharing, pinned, forget }: HelloMeta): void {
    if (draining !== undefined) this.#options.onDraining(draining)
    if (sharing) this.#options.onSharing(sharing)
    if (pinned) this.#options.onPinned(pinned)
    if (forget?.length) this.#options.onForget(forget)
    // An empty list means that the sender does not know the gateways, not that there are none.
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
