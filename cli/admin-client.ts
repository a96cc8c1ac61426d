import { PlatformClient } from './platform-client.ts'

/** Sends requests to `/api/v1/admin` with the operations key. */
export class AdminClient extends PlatformClient {
  constructor(baseUrl: string, operationsKey: string) {
    super(baseUrl, {
      prefix: '/api/v1/admin',
      headers: { 'x-api-key': operationsKey },
      credential: 'this operations key. Check HEARTH_OPERATIONS_KEY or --operations-key',
    })
  }

  /** Returns the items of every page of a list. */
  async all<T>(path: string, plural: string): Promise<T[]> {
    const items: T[] = []
    for (let cursor: string | null = ''; cursor !== null;) {
      const separator = path.includes('?') ? '&' : '?'
      const query: string = cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''
      const page: Record<string, unknown> = await this.call('GET', `${path}${separator}limit=100${query}`)
      items.push(...(page[plural] as T[]))
      cursor = page['next_cursor'] as string | null
    }
    return items
  }
}
