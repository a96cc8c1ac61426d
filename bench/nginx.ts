import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pRetry from 'p-retry'
import { request } from 'undici'
import { freePorts } from '../platform/free-ports.ts'

/** A proxy in one process that forwards every request to a Unix socket. */
export interface Nginx extends AsyncDisposable {
  baseUrl: string
  pid: number
}

/** Starts nginx as a bare proxy with keep-alive connections; disposing stops it. */
export async function startNginx(socket: string): Promise<Nginx> {
  const folder = mkdtempSync(join(tmpdir(), 'hearth-nginx-'))
  const [port = 0] = await freePorts(1)
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  )
  const settings = `
    daemon off; master_process off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/error.log;
    events { worker_connections 1024; }
    http {
      access_log off; keepalive_requests 1000000; ${paths.join(' ')}
      upstream model { server unix:${socket}; keepalive 64; keepalive_requests 1000000; }
      server {
        listen 127.0.0.1:${port};
        location / { proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; }
      }
    }`
  writeFileSync(join(folder, 'nginx.conf'), settings)
  const child = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')], { stdio: 'inherit' })
  const stop = async () => {
    child.kill('SIGTERM')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    rmSync(folder, { recursive: true, force: true })
  }
  const baseUrl = `http://127.0.0.1:${port}`
  try {
    await pRetry(async () => (await request(`${baseUrl}/health`)).body.dump(), {
      retries: 100,
      minTimeout: 50,
      factor: 1,
    })
  } catch (err) {
    await stop()
    throw err
  }
  return { baseUrl, pid: child.pid ?? 0, [Symbol.asyncDispose]: stop }
}
