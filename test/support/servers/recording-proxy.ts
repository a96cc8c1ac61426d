import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'

/** A forward proxy that records the requested hosts. */
export interface RecordingProxy extends AsyncDisposable {
  url: string
  /** `host:port` of each request, in order. */
  targets: string[]
}

/** Starts a proxy. If `answer` is given, plain requests get it as the response body and aren't forwarded. */
export async function recordingProxy(answer?: string): Promise<RecordingProxy> {
  const asked: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((req, res) => {
    const target = new URL(req.url ?? '')
    asked.push(target.host.includes(':') ? target.host : `${target.host}:80`)
    if (answer !== undefined) return void res.setHeader('content-type', 'application/json').end(answer)
    const onward = request(target, { method: req.method ?? 'GET', headers: req.headers }, (response) => {
      res.writeHead(response.statusCode ?? 502, response.headers)
      response.pipe(res)
    })
    onward.on('error', () => res.writeHead(502).end())
    req.pipe(onward)
  })
  server.on('connect', (req, socket: Socket, head) => {
    asked.push(req.url ?? '')
    const [host = '', port = ''] = (req.url ?? '').split(/:(?=\d+$)/)
    const onward = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      onward.write(head)
      onward.pipe(socket).pipe(onward)
    })
    onward.on('error', () => socket.destroy())
    socket.on('error', () => onward.destroy())
  })
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    targets: asked,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
