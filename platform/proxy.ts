import { EnvHttpProxyAgent } from 'undici'

/** Names of this machine, which no proxy can reach for us. */
const OWN = ['localhost', '127.0.0.1', '::1']
/** grpc-js prefers the second to the first where both are set. */
const EXCEPTIONS = ['no_proxy', 'NO_PROXY', 'no_grpc_proxy'] as const

/** The proxies that the environment names, as curl reads it: small letters first, ALL_PROXY for both kinds. */
export interface Proxies {
  http: string | undefined
  https: string | undefined
  /** Hosts that are reached directly, separated by commas; always with the names of this machine. */
  except: string
}

/** Reads the proxy variables, which exist in small and in capital letters. */
export function proxiesOf(env: NodeJS.ProcessEnv): Proxies {
  const either = (name: string) => env[name] || env[name.toUpperCase()] || undefined
  const all = either('all_proxy')
  return {
    http: either('http_proxy') ?? all,
    https: either('https_proxy') ?? all,
    except: exceptionsOf(env),
  }
}

function exceptionsOf(env: NodeJS.ProcessEnv): string {
  const named = [env['no_proxy'], env['NO_PROXY']].flatMap((list) => (list ?? '').split(/[,\s]+/))
  return [...new Set([...named.filter(Boolean), ...OWN])].join(',')
}

/**
 * Takes this machine out of the proxy for this process and its children, whichever spelling a program reads. Programs that
 * install or download something still use the proxy.
 */
export function exceptThisMachine(env: NodeJS.ProcessEnv): void {
  const except = exceptionsOf(env)
  for (const name of EXCEPTIONS) if (name !== 'no_grpc_proxy' || env[name] !== undefined) env[name] = except
}

let current: { key: string; dispatcher: EnvHttpProxyAgent } | undefined

/**
 * Returns the dispatcher for downloads from the outside; undefined without a proxy. Only clients whose destination an
 * operator chose may use it: webhooks and tools connect to an address that was checked, which a proxy would undo.
 */
export function proxyDispatcher(env: NodeJS.ProcessEnv = process.env): EnvHttpProxyAgent | undefined {
  const { http, https, except } = proxiesOf(env)
  if (!http && !https) return undefined
  const key = JSON.stringify([http, https, except])
  if (current?.key === key) return current.dispatcher
  const dispatcher = new EnvHttpProxyAgent({
    ...(http && { httpProxy: http }),
    ...(https && { httpsProxy: https }),
    noProxy: except,
  })
  current = { key, dispatcher }
  return dispatcher
}
