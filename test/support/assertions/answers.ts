import type { IncomingMessage, ServerResponse } from 'node:http'

/** Handles a request to a webhook endpoint. */
export type WebhookHandler = (req: IncomingMessage, res: ServerResponse) => void

export const answerWith =
  (code: number, headers: Record<string, string> = {}): WebhookHandler =>
  (_req, res) =>
    res.writeHead(code, headers).end('not for anybody: whsec_body')

/** The behaviors of a webhook endpoint, each with the recorded attempt: status, outcome, error code, class. */
export const ANSWERS: [string, WebhookHandler, [string, string, string | null, string | null]][] = [
  ['answers 200', answerWith(200), ['succeeded', 'succeeded', null, '2xx']],
  ['answers 202', answerWith(202), ['succeeded', 'succeeded', null, '2xx']],
  ['redirects', answerWith(301, { location: '/' }), ['failed', 'permanent', 'redirect_rejected', '3xx']],
  [
    'redirects temporarily',
    answerWith(307, { location: '/' }),
    ['failed', 'permanent', 'redirect_rejected', '3xx'],
  ],
  ['answers 400', answerWith(400), ['failed', 'permanent', 'http_4xx', '4xx']],
  ['answers 404', answerWith(404), ['failed', 'permanent', 'http_4xx', '4xx']],
  ['answers 408', answerWith(408), ['retrying', 'retryable', 'http_4xx', '4xx']],
  ['answers 425', answerWith(425), ['retrying', 'retryable', 'http_4xx', '4xx']],
  ['answers 429', answerWith(429), ['retrying', 'retryable', 'http_4xx', '4xx']],
  ['answers 500', answerWith(500), ['retrying', 'retryable', 'http_5xx', '5xx']],
  ['answers 503', answerWith(503), ['retrying', 'retryable', 'http_5xx', '5xx']],
  [
    'closes the connection',
    (req) => req.socket.destroy(),
    ['retrying', 'retryable', 'connection_closed', null],
  ],
  [
    'sends an invalid response',
    (req) => req.socket.end('nonsense\r\n\r\n'),
    ['retrying', 'retryable', 'invalid_answer', null],
  ],
  [
    'sends a huge response',
    (_req, res) => res.end(Buffer.alloc(8_000_000)),
    ['succeeded', 'succeeded', null, '2xx'],
  ],
  ['is slow', (_req, res) => setTimeout(() => res.end(), 1_500), ['succeeded', 'succeeded', null, '2xx']],
  ['hangs', () => {}, ['retrying', 'retryable', 'timeout', null]],
]
