import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { readConfig } from '../../../platform/config.ts'
import { EgressPolicy, EgressRefused, openEgressPolicy } from '../../../platform/egress/policy.ts'

interface Case {
  name: string
  url: string
  expect: 'accept' | 'reject'
  why: string
  layer?: 'url' | 'dns' | 'connect' | 'response'
  resolves_to?: string[]
}

const CASES = JSON.parse(
  readFileSync(new URL('../../fixtures/egress-cases.json', import.meta.url), 'utf8'),
) as Case[]
const MORE = JSON.parse(
  readFileSync(new URL('../../fixtures/egress-more.json', import.meta.url), 'utf8'),
) as Case[]

/** Returns the layer that rejects the destination, if any. */
function refusedAt(
  policy: EgressPolicy,
  { url, resolves_to: addresses = [] }: Case,
): 'url' | 'dns' | undefined {
  const destination = attempt(() => policy.parse(url))
  if (!destination) return 'url'
  // A name without an address is a failed lookup, which the sender reports, not the policy.
  return attempt(() => (policy.checkAddresses(destination, addresses), true)) ? undefined : 'dns'
}

function attempt<T>(action: () => T): T | undefined {
  try {
    return action()
  } catch (err) {
    assert.ok(err instanceof EgressRefused, String(err))
    return undefined
  }
}

describe('egress policy', () => {
  const policy = new EgressPolicy({ allow: [], block: ['our-platform.com'] })

  for (const one of [...CASES, ...MORE]) {
    if (one.layer === 'response' || one.name === 'no answer') continue
    const layer = one.expect === 'accept' ? undefined : one.layer
    it(`${one.expect}s ${one.name}: ${one.why}`, () => {
      assert.equal(refusedAt(policy, one), layer)
    })
  }

  it("blocks the platform's own names", () => {
    const own = openEgressPolicy(
      readConfig({
        HEARTH_BASE_URL: 'http://gateway.internal.net:8420',
        HEARTH_PUBLIC_URL: 'https://our-platform.com',
      }),
    )
    for (const url of ['https://our-platform.com/hook', 'https://gateway.internal.net/hook'])
      assert.throws(() => own.parse(url), /blocked by the operator/)
    assert.doesNotThrow(() => own.parse('https://another-platform.com/hook'))
  })

  describe('with an allow list', () => {
    const allowing = new EgressPolicy({ allow: ['127.0.0.0/8:8443', '[fd00::]/8:443'], block: [] })

    it('allows a reserved name at an allowed address and port', () => {
      const destination = allowing.parse('https://receiver.test:8443/in')
      assert.doesNotThrow(() => allowing.checkAddresses(destination, ['127.0.0.1']))
    })

    it('rejects another address for the same name', () => {
      const destination = allowing.parse('https://receiver.test:8443/in')
      assert.throws(() => allowing.checkAddresses(destination, ['127.0.0.1', '93.184.215.14']), EgressRefused)
    })

    it('rejects the allowed address on another port', () => {
      const destination = allowing.parse('https://hooks.acme-corp.com/in')
      assert.throws(() => allowing.checkAddresses(destination, ['127.0.0.1']), EgressRefused)
    })

    it('never allows a literal address', () => {
      assert.throws(() => allowing.parse('https://127.0.0.1:8443/in'), EgressRefused)
    })

    it('rejects a port that no entry names', () => {
      assert.throws(() => allowing.parse('https://receiver.test:8444/in'), /port must be 443/)
    })

    it('accepts IPv6 networks', () => {
      const destination = allowing.parse('https://receiver.internal/in')
      assert.doesNotThrow(() => allowing.checkAddresses(destination, ['fd00::5']))
    })
  })

  it('reports which entry of the allow list is invalid', () => {
    assert.throws(
      () => new EgressPolicy({ allow: ['10.0.0.0/8'], block: [] }),
      /HEARTH_EGRESS_ALLOW.*10\.0\.0\.0\/8/,
    )
  })
})
