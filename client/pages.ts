/** One page of a list response. */
export interface Page<T, A> {
  items: readonly T[]
  /** The query parameters for the next page; null on the last page. */
  next: Readonly<{ cursor: string } | { offset: number }> | null
  /** The full response, which in some lists contains more than the items. */
  answer: A
}

/** A list that is read lazily: each page is requested only when the items before it have been consumed. */
export class Pages<T, A> implements AsyncIterable<T> {
  readonly #read: (place: object) => Promise<Page<T, A>>

  constructor(read: (place: object) => Promise<Page<T, A>>) {
    this.#read = read
  }

  /** Returns the first page, for lists that are shown page by page. */
  first(): Promise<Page<T, A>> {
    return this.#read({})
  }

  /** Yields one page at a time. */
  async *pages(): AsyncGenerator<Page<T, A>, void> {
    let position: object | null = {}
    while (position) {
      const page: Page<T, A> = await this.#read(position)
      yield page
      position = page.next
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    for await (const { items } of this.pages()) yield* items
  }

  /** Returns all items, or at most `most`. */
  async all(most = Number.POSITIVE_INFINITY): Promise<T[]> {
    const items: T[] = []
    for await (const page of this.pages()) {
      items.push(...page.items)
      if (items.length >= most) return items.slice(0, most)
    }
    return items
  }
}

interface ListPage {
  next_cursor?: string | null
  offset?: number
  total?: number
}

/** Reads a list response whose items are under `name`. */
export function pageOf<T, A>(answer: A, name: keyof A): Page<T, A> {
  const items = answer[name] as readonly T[]
  const { next_cursor: cursor, offset = 0, total = 0 } = answer as ListPage
  const reached = offset + items.length
  const isMore = items.length > 0 && reached < total
  return { items, next: cursor ? { cursor } : isMore ? { offset: reached } : null, answer }
}
