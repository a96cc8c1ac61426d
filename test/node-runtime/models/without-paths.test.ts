import assert from 'node:assert/strict'
import { withoutPaths } from '../../../node-runtime/models/without-paths.ts'

describe('withoutPaths', () => {
  const cases: [message: string, expected: string][] = [
    ["ENOENT: no such file, open '/var/lib/n/weights/a b'", "ENOENT: no such file, open '…/a b'"],
    ['failed: /root/.cache/x/python (1)', 'failed: …/python (1)'],
    ['File "/opt/x.py", line 3', 'File "…/x.py", line 3'],
    ['at file:///home/a/b.ts:3:4', 'at …/b.ts:3:4'],
    ['in /srv/models/ there is none', 'in … there is none'],
    ['(/a/b.safetensors),/c/d', '(…/b.safetensors),…/d'],
    [
      'see https://hub.example/a/b/c and http://127.0.0.1:80/x/y',
      'see https://hub.example/a/b/c and http://127.0.0.1:80/x/y',
    ],
    ['POST /v1/chat/completions and /api/v1/nodes', 'POST /v1/chat/completions and /api/v1/nodes'],
    ['3/4 of a/b/c, and/or 1 / 2', '3/4 of a/b/c, and/or 1 / 2'],
    ['org/model at ./x/y and ../x/y', 'org/model at ./x/y and ../x/y'],
  ]
  for (const [message, expected] of cases) {
    it(`rewrites ${message}`, () => assert.equal(withoutPaths(message), expected))
  }
})
