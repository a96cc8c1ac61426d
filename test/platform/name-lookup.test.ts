import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { NameLookup } from '../../platform/name-lookup.ts'

describe('look-up of names', () => {
  const answer = ['93.184.215.14']

  it('asks anew each time, but once for all who want a name at the same time', async () => {
    let questions = 0
    const names = new NameLookup(async () => (questions++, answer))

    await Promise.all([names.addressesOf('a.com'), names.addressesOf('a.com')])
    await names.addressesOf('a.com')

    assert.equal(questions, 2)
  })

  it('leaves room for the others when many names hang', async () => {
    const asked: string[] = []
    const hanging = (hostname: string) => {
      asked.push(hostname)
      return hostname.startsWith('slow') ? sleep(60, answer) : Promise.resolve(answer)
    }
    const names = new NameLookup(hanging, { slowMs: 50, slowAtOnce: 1 })
    const slow = ['slow1.com', 'slow2.com', 'slow3.com']
    const ask = () => Promise.allSettled(slow.map((name) => names.addressesOf(name)))
    await ask()
    asked.length = 0

    const [first, second, third] = await ask()

    assert.deepEqual(
      [first, second, third].map((one) => one?.status),
      ['fulfilled', 'rejected', 'rejected'],
    )
    assert.deepEqual(asked, ['slow1.com'])
    assert.deepEqual(await names.addressesOf('quick.com'), answer)
    assert.deepEqual(await names.addressesOf('slow2.com'), answer, 'once there is room')
  })

  it('treats a name that was quick again like any other', async () => {
    let wait = 60
    const names = new NameLookup(() => sleep(wait, answer), { slowMs: 50, slowAtOnce: 1 })
    await Promise.all([names.addressesOf('a.com'), names.addressesOf('b.com')])
    wait = 0
    await names.addressesOf('a.com')
    wait = 60

    const both = await Promise.all([names.addressesOf('b.com'), names.addressesOf('a.com')])

    assert.deepEqual(both, [answer, answer])
  })
})
