import { pageOf, Pages } from './pages.ts'
import type { CallOptions, Operation, Transport } from './transport.ts'

/** Every method has an `operation`: the OpenAPI operation that it calls. */
export interface DescribedMethod {
  readonly operation: Operation
}

type Ids = readonly string[]
type Items<A, K extends keyof A> = A[K] extends readonly (infer T)[] ? T : never

type Call<I extends Ids, A> = DescribedMethod & ((...args: [...I, options?: CallOptions]) => Promise<A>)
type Query<I extends Ids, Q, A> = DescribedMethod &
  ((...args: [...I, query?: Q, options?: CallOptions]) => Promise<A>)
type Send<I extends Ids, B, A> = DescribedMethod &
  ((...args: [...I, body: B, options?: CallOptions]) => Promise<A>)
type List<I extends Ids, Q, A, K extends keyof A> = DescribedMethod &
  ((...args: [...I, query?: Q, options?: CallOptions]) => Pages<Items<A, K>, A>)

/** A file in a form; `filename` defaults to the name of a `File`. */
export interface FormFile {
  file: Blob
  filename?: string
}

/** Creates methods for operations. The type parameters are the path ids, then the query or body, then the response. */
export class Operations {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** A request with only ids. */
  call<I extends Ids, A>(operation: Operation): Call<I, A> {
    return described(operation, (...args) => {
      const { ids, rest } = split(operation, args)
      return this.#transport.send<A>(operation, { ids, options: rest[0] as CallOptions })
    })
  }

  /** A request with a query. */
  query<I extends Ids, Q extends object, A>(operation: Operation): Query<I, Q, A> {
    return described(operation, (...args) => {
      const { ids, rest } = split(operation, args)
      const [query, options] = rest as [Q?, CallOptions?]
      return this.#transport.send<A>(operation, { ids, query, options })
    })
  }

  /** A request with a body. */
  send<I extends Ids, B, A>(operation: Operation): Send<I, B, A> {
    return described(operation, (...args) => {
      const { ids, rest } = split(operation, args)
      return this.#transport.send<A>(operation, { ids, body: rest[0], options: rest[1] as CallOptions })
    })
  }

  /** A request with a form that contains a file. */
  form<I extends Ids, B extends FormFile, A>(operation: Operation): Send<I, B, A> {
    return described(operation, (...args) => {
      const { ids, rest } = split(operation, args)
      const body = formOf(rest[0] as FormFile)
      return this.#transport.send<A>(operation, { ids, body, options: rest[1] as CallOptions })
    })
  }

  /** A list whose responses have their items under `items`. */
  list<I extends Ids, Q extends object, A, K extends keyof A>(
    operation: Operation & { items: K },
  ): List<I, Q, A, K> {
    return described(operation, (...args) => {
      const { ids, rest } = split(operation, args)
      const [query, options] = rest as [Q?, CallOptions?]
      return new Pages<Items<A, K>, A>(async (place) => {
        const outgoing = { ids, query: { ...query, ...place }, options }
        return pageOf(await this.#transport.send<A>(operation, outgoing), operation.items)
      })
    })
  }
}

function described<F extends DescribedMethod>(
  operation: Operation,
  call: (...args: unknown[]) => unknown,
): F {
  return Object.assign(call, { operation }) as unknown as F
}

function split({ path }: Operation, args: readonly unknown[]): { ids: string[]; rest: unknown[] } {
  const count = path.split('{').length - 1
  return { ids: args.slice(0, count) as string[], rest: args.slice(count) }
}

function formOf({ file, filename, ...fields }: FormFile): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields as Record<string, string | undefined>)) {
    if (value !== undefined) form.append(name, value)
  }
  form.append('file', file, filename ?? (file as Partial<File>).name ?? 'file')
  return form
}
