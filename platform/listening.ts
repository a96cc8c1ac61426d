import { ConfigError } from './config.ts'

/** The configured address of a server. */
export interface ListenAddress {
  host: string
  port: number
}

/** The settings of the API's address. */
const API_SETTINGS = { host: 'HEARTH_HOST', port: 'HEARTH_PORT' }

/** Explains why a server cannot listen on an address, and names the setting to change; by default, the API's. */
export function listenError(
  cause: unknown,
  { host, port }: ListenAddress,
  settings: Record<'host' | 'port', string> = API_SETTINGS,
): ConfigError {
  const { code = '', message } = cause as NodeJS.ErrnoException
  return new ConfigError(reason(code, message), { cause })

  function reason(what: string, text: string): string {
    switch (what) {
      case 'EADDRINUSE':
        return `${settings.port}: port ${port} on ${host} is taken by another program. Stop it, or choose another port (0 takes any free one).`
      case 'EACCES':
      case 'EPERM':
        return `${settings.port}: this user is not allowed to listen on port ${port} of ${host}. Choose a port above 1023.`
      case 'EADDRNOTAVAIL':
      case 'ENOTFOUND':
      case 'EAI_AGAIN':
      case 'EINVAL':
        return `${settings.host} must be an address of this machine, or a name that resolves to one, not ${JSON.stringify(host)} (${what}).`
      default:
        return `${settings.host}, ${settings.port}: cannot listen on ${host}:${port}: ${text}.`
    }
  }
}

/** Returns the URL at which programs on this machine reach the server. */
export function localUrl({ host, port }: ListenAddress): string {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`
}
