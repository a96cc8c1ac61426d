import { needPrograms } from './needs.ts'
import { cpuSeconds } from './platform.ts'
import { unlessOnce } from './rounds.ts'
import { startBareFeed, startJournalFeed } from './webhook-feed.ts'
import { measureGrowth } from './webhook-growth.ts'
import { type Load, publish, startWebhookWorld } from './webhook-world.ts'

// Measures webhooks end to end: events enter through the gateway's journal and leave as signed HTTPS POSTs, compared
// with a bare loop of one insert and one POST per event in the same run. Then measures an endpoint that responds after
// 2 s next to a fast one. With --growth: 100,000 deliveries, and the growth of memory, database and list times during
// them.

const FLAT_OUT = unlessOnce(5_000, 200)

needPrograms('go')
await using world = await startWebhookWorld()
const { platform, db, load } = world
const quick = await world.subscriber()
await using feed = await startJournalFeed(db, { '/quick': quick.publisher })
await load(publish(feed.url('/quick'), 200), () => quick.verify('/in'))
await (process.argv.includes('--growth') ? measureGrowth(world, quick, feed.url('/quick')) : measureSpeed())

async function measureSpeed(): Promise<void> {
  // This account has no webhook endpoint, so only the loop posts its events.
  const loop = await world.subscriber()
  await using bare = await startBareFeed(db, loop.publisher, world.bareDestination, world.certificate)
  const worker = platform.pidOf('control')
  const before = cpuSeconds(worker)
  const flatOut = await load([...publish(feed.url('/quick'), FLAT_OUT), '-wait', '60s'])
  const cpu = ((cpuSeconds(worker) - before) / FLAT_OUT) * 1e6
  const bareRun = await load(publish(bare.url('/'), FLAT_OUT))
  const steady = await load(publish(feed.url('/quick'), 1_000, 50))
  const bareSteady = await load(publish(bare.url('/'), 1_000, 50))
  show('flat out', flatOut)
  show('bare loop, flat out', bareRun)
  show('50 a second', steady)
  show('bare loop, 50 a second', bareSteady)
  console.log(
    `delivered, compared with the bare loop: ${(flatOut.deliver_per_s / bareRun.deliver_per_s).toFixed(2)}x`,
  )
  console.log(`worker CPU per delivery: ${cpu.toFixed(0)} µs`)

  const quiet = await load(publish(feed.url('/quick'), 200, 20))
  const slow = await world.subscriber()
  await using slowFeed = await startJournalFeed(db, { '/slow': slow.publisher })
  const slowly = ['-slow-url', slowFeed.url('/slow'), '-slow-n', '300', '-wait', '60s']
  const loadNextToSlow = await load([...publish(feed.url('/quick'), 200, 20), ...slowly], () =>
    slow.verify('/slow'),
  )
  show('quick destination, alone', quiet)
  show('fast next to slow (2 s, 300 queued)', loadNextToSlow)
  console.log(`fast p50 next to slow: ${(loadNextToSlow.e2e_p50_ms / quiet.e2e_p50_ms).toFixed(2)}x of quiet`)
}

function show(what: string, one: Load): void {
  console.log(
    `${what.padEnd(34)} accepted ${one.accept_per_s}/s  delivered ${one.deliver_per_s}/s  p50 ${one.e2e_p50_ms.toFixed(1)} ms  p99 ${one.e2e_p99_ms.toFixed(1)} ms  duplicates ${one.duplicates}  missing ${one.accepted - one.delivered}`,
  )
}
