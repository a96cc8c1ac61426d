import assert from 'node:assert/strict'
import { affinityOf, preferredNode } from '../../../domain/chat/affinity.ts'

const user = (content: string) => ({ role: 'user', content })
const nodes = ['n1', 'n2', 'n3', 'n4']

describe('chat affinity', () => {
  it('is keyed by cache key, then session, then the messages up to the first user message', () => {
    const system = { role: 'system', content: 'be brief' }
    const first = affinityOf({ messages: [system, user('hi')] })
    const later = affinityOf({ messages: [system, user('hi'), { role: 'assistant' }, user('more')] })

    assert.equal(first, later)
    assert.notEqual(first, affinityOf({ messages: [system, user('ho')] }))
    assert.notEqual(first, affinityOf({ messages: [user('hi')] }))
    assert.equal(affinityOf({ messages: [user('a')] }, 's1'), affinityOf({ messages: [user('b')] }, 's1'))
    const keyed = (text: string) => affinityOf({ messages: [user(text)], prompt_cache_key: 'k' }, text)
    assert.equal(keyed('a'), keyed('b'))
    assert.equal(affinityOf({ messages: 7, prompt_cache_key: '' }, ['a']), affinityOf({}))
  })

  it('prefers the same node while it is online, spreads keys over nodes, and differs between accounts', () => {
    const keys = Array.from({ length: 400 }, (_, i) => `key ${i}`)
    const chosen = keys.map((key) => preferredNode(nodes, 'a', key))
    const counts = nodes.map((node) => chosen.filter((one) => one === node).length)
    const without = keys.map((key) => preferredNode(['n4', 'n1', 'n3'], 'a', key))
    const ofOther = keys.map((key) => preferredNode(nodes, 'b', key))

    assert(
      counts.every((count) => count > 60),
      counts.join(),
    )
    assert(chosen.every((node, i) => node === 'n2' || node === without[i]))
    const same = ofOther.filter((node, i) => node === chosen[i]).length
    assert(same > 50 && same < 150, `${same} of 400`)
    assert.equal(preferredNode([], 'a', 'k'), undefined)
  })
})
