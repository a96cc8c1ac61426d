import { EnvHttpProxyAgent } from 'undici'

/** Names of this machine, which a proxy can't reach for us. */
const OWN = ['localhost', '127.0.0.1', '::1']
/** grpc-js prefers `no_grpc_proxy` to `no_proxy` if both are set. */
const EXCEPTIONS = ['no_proxy', 'NO_PROXY', 'no_grpc_proxy'] as const

/** The proxies in the environment, read as curl does: lower-case names first, ALL_PROXY for both kinds. */
export interface Proxies {
  http: string | undefined
  https: string | undefined
  /** Comma-separated hosts that are reached directly; always includes the names of this machine. */
  except: string
}

/** Reads the proxy variables, which exist in lower and upper case. */
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
 * Exempts this machine from the proxy for this process and its children, whichever spelling a program reads. Programs
 * that install or download something still use the proxy.
 */
export function exceptThisMachine(env: NodeJS.ProcessEnv): void {
  const except = exceptionsOf(env)
  for (const name of EXCEPTIONS) if (name !== 'no_grpc_proxy' || env[name] !== undefined) env[name] = except
}

let current: { key: string; dispatcher: EnvHttpProxyAgent } | undefined

/**
 * Returns the dispatcher for external downloads; undefined without a proxy. Only clients whose destination an operator
 * chose may use it: webhooks and tools connect to a checked address, and a proxy would bypass that check.
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
