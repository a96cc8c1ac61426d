import type { HelloMeta } from '../../schemas/nodes/link.ts'
import type { NodeReport, NodeSharing } from '../../schemas/nodes/node.ts'
import { emit } from '../events.ts'
import { GatewayLink, type GatewayLinkOptions } from './gateway-link.ts'

export interface LinksOptions extends Omit<GatewayLinkOptions, 'url' | 'onHello'> {
  /** The configured gateway, used while no gateway in the list can be reached. */
  home: string
  gateways: readonly string[]
  onGateways: (gateways: readonly string[]) => void
  onDraining: (draining: boolean) => void
  onSharing: (sharing: NodeSharing) => void
  /** Called with the fields of a hello that control how long models stay loaded. */
  onStay: (stay: Pick<HelloMeta, 'pinned' | 'retiring' | 'idle_timeouts'>) => void
  /** Called with models that the platform has deleted. */
  onForget: (modelKeys: readonly string[]) => void
  /** The time without any link after which `home` is tried as well. */
  homelessMs?: number
}

const REPORT_INTERVAL_MS = 1_000
/** The number of intervals after which a report is sent even without changes, to show that the node is alive. */
const MAX_SILENCE = 3

/** After this time without any link, the last list of gateways is no longer trusted. */
const GATEWAY_LIST_TTL_MS = 15_000

/** One link per gateway; the list of gateways arrives over the links themselves. */
export class Links {
  readonly #options: LinksOptions
  readonly #home: string
  readonly #links = new Map<string, GatewayLink>()
  /** The gateways on the latest list. */
  #listed: ReadonlySet<string> = new Set()
  readonly #timer: NodeJS.Timeout
  #lastReport = ''
  #silence = 0
  #linkedAt = performance.now()

  constructor(options: LinksOptions) {
    this.#options = options
    this.#home = normalized(options.home)
    this.#setGateways(options.gateways)
    options.models.onChange((model) => {
      for (const link of this.#links.values()) link.tellModel(model)
    })
    this.#timer = setInterval(() => this.#report(), REPORT_INTERVAL_MS)
  }

  /** The addresses of the gateways. */
  get gateways(): readonly string[] {
    return [...this.#links.keys()]
  }

  /** The reachable gateways: those with an open link, or all of them if no link is open. */
  get reachable(): readonly string[] {
    const open = [...this.#links.values()].filter(({ isOpen }) => isOpen)
    return open.length > 0 ? open.map(({ url }) => url) : this.gateways
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
    this.#dropUnlisted()
    this.#stayInReach()
    const report: NodeReport = this.#options.report()
    const text = JSON.stringify({ report })
    if (text === this.#lastReport && ++this.#silence < MAX_SILENCE) return
    this.#lastReport = text
    this.#silence = 0
    const body = Buffer.from(text)
    for (const link of this.#links.values()) link.tellReport(body)
  }

  /** Adds the configured gateway when no link is open: all gateways may have moved with no link to announce it. */
  #stayInReach(): void {
    const { log, homelessMs = GATEWAY_LIST_TTL_MS } = this.#options
    if (this.openCount > 0) this.#linkedAt = performance.now()
    const hasHome = this.#links.has(this.#home)
    if (hasHome || performance.now() - this.#linkedAt < homelessMs) return
    emit(log, 'link.unanswered', { gateway: this.#home })
    this.#open(this.#home)
  }

  #hello({ gateways, draining, sharing, forget, ...stay }: HelloMeta): void {
    if (draining !== undefined) this.#options.onDraining(draining)
    if (sharing) this.#options.onSharing(sharing)
    if (stay.pinned ?? stay.retiring ?? stay.idle_timeouts) this.#options.onStay(stay)
    if (forget?.length) this.#options.onForget(forget)
    // An empty list means that the sender doesn't know the gateways, not that there are none.
    if (!gateways?.length) return
    this.#setGateways(gateways)
    this.#options.onGateways(gateways)
  }

  #setGateways(urls: readonly string[]): void {
    this.#listed = new Set(urls.map(normalized))
    for (const url of this.#listed) {
      if (!this.#links.has(url)) this.#open(url)
    }
    this.#dropUnlisted()
  }

  /**
   * Closes links to gateways that are no longer on the list. They stay in use until a link to a listed gateway is open:
   * the announced addresses may be unreachable from this node.
   */
  #dropUnlisted(): void {
    const isListOpen = [...this.#links].some(([url, { isOpen }]) => isOpen && this.#listed.has(url))
    for (const [url, link] of this.#links) {
      const isNeeded = !isListOpen && (link.isOpen || url === this.#home)
      if (this.#listed.has(url) || isNeeded) continue
      link.close()
      this.#links.delete(url)
    }
  }

  #open(url: string): void {
    this.#links.set(url, new GatewayLink({ ...this.#options, url, onHello: (hello) => this.#hello(hello) }))
  }
}

const normalized = (url: string): string => url.replace(/\/$/, '')
