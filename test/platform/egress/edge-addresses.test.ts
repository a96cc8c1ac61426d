import assert from 'node:assert/strict'
import { addressOfCandidate, EdgeAddresses } from '../../../platform/egress/edge-addresses.ts'

const FAR = { isSameMachine: false }
const NEAR = { isSameMachine: true }

describe('addresses between nodes', () => {
  const byDefault = new EdgeAddresses([])

  it('may be in private and public networks', () => {
    for (const host of [
      '10.0.0.7',
      '172.31.255.255',
      '192.168.1.2',
      '100.64.0.1',
      '93.184.215.14',
      '11.0.0.1',
      '[fd12::7]',
      '[2606:4700::1111]',
    ])
      assert.equal(byDefault.allows(`https://${host}:7440`, FAR), true, host)
  })

  it('may be loopback on one machine only', () => {
    for (const host of ['127.0.0.1', '127.8.8.8', '[::1]']) {
      assert.equal(byDefault.allows(`https://${host}:7440`, FAR), false, host)
      assert.equal(byDefault.allows(`https://${host}:7440`, NEAR), true, host)
    }
  })

  it('are never link-local, metadata, multicast, reserved, mapped or translated', () => {
    const hosts = [
      '0.0.0.0',
      '0.1.2.3',
      '169.254.169.254',
      '169.254.1.1',
      '168.63.129.16',
      '100.100.100.200',
      '192.0.0.192',
      '224.0.0.1',
      '239.1.1.1',
      '255.255.255.255',
      '198.18.0.1',
      '192.0.2.1',

      '[::]',
      '[fe80::1]',
      '[ff02::1]',
      '[fd00:ec2::254]',
      '[fd20:ce::254]',
      '[::ffff:7f00:1]',
      '[::7f00:1]',

      '[64:ff9b::7f00:1]',
      '[64:ff9b::a00:1]',
      '[2002:7f00:1::]',
      '[2001:0:1::1]',
      '[2001:db8::1]',
      '[100::1]',
    ]
    for (const host of hosts)
      for (const addresses of [byDefault, new EdgeAddresses(['0.0.0.0/0', '::/0'])])
        assert.equal(addresses.allows(`https://${host}:7440`, NEAR), false, host)
  })

  it('have one canonical form, and are never host names', () => {
    const texts = [
      'https://localhost:1',
      'https://node.example.com:7440',
      'https://2130706433:1',
      'https://0x7f.1:1',

      'https://0x7f000001:1',
      'https://017700000001:1',
      'https://127.1:1',
      'https://010.0.0.7:1',
      'https://10.0.0.07:1',

      'https://10.0.0.7',
      'https://10.0.0.7:0',
      'https://10.0.0.7:65536',
      'https://10.0.0.7:07440',
      'http://10.0.0.7:1',

      'https://10.0.0.7:1/',
      'https://10.0.0.7:1/x',
      'https://a@10.0.0.7:1',
      'https://10.0.0.7:1#x',
      'https://10.0.0.7.:1',

      'https://[::ffff:127.0.0.1]:1',
      'https://[0:0:0:0:0:0:0:1]:1',
      'https://[FD12::7]:1',
      'https://[fd12::0007]:1',

      'https://[fe80::1%25eth0]:1',
      'HTTPS://10.0.0.7:1',
      ' https://10.0.0.7:1',
      'https://①0.0.0.7:1',
      'https://10。0.0.7:1',
    ]
    for (const text of texts) {
      assert.equal(addressOfCandidate(text), undefined, text)
      assert.equal(byDefault.allows(text, NEAR), false, text)
    }
    assert.equal(addressOfCandidate('https://10.0.0.7:443'), '10.0.0.7')
    assert.equal(addressOfCandidate('https://[fd12::7]:65535'), 'fd12::7')
  })

  it('must be in the networks that the operator allows', () => {
    const named = new EdgeAddresses(['10.1.0.0/16', 'fd12::/32'])

    assert.equal(named.allows('https://10.1.2.3:1', FAR), true)
    assert.equal(named.allows('https://[fd12::7]:1', FAR), true)
    assert.equal(named.allows('https://10.2.2.3:1', FAR), false)
    assert.equal(named.allows('https://93.184.215.14:1', FAR), false)
    assert.equal(named.allows('https://127.0.0.1:1', NEAR), true)
  })
})
