import { readFileSync } from 'node:fs'

const { timezone = 'UTC' } = JSON.parse(readFileSync('/hearth/input/input.json', 'utf8'))
const now = new Date()

function partsIn(timeZone) {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    weekday: 'long',
    timeZoneName: 'longOffset',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  })
  return Object.fromEntries(format.formatToParts(now).map(({ type, value }) => [type, value]))
}

try {
  const { year, month, day, hour, minute, second, weekday, timeZoneName } = partsIn(timezone)
  const offset = timeZoneName.replace('GMT', '') || '+00:00'
  const fraction = String(now.getUTCMilliseconds()).padStart(3, '0')
  const result = {
    timezone,
    time: `${year}-${month}-${day}T${hour}:${minute}:${second}.${fraction}${offset}`,
    utc: now.toISOString(),
    unix_s: now.getTime() / 1000,
    weekday,
  }
  process.stdout.write(JSON.stringify(result))
} catch (err) {
  if (!(err instanceof RangeError)) throw err
  const message = `timezone: ${JSON.stringify(timezone)} is not a time zone; expected a name such as Europe/Berlin`
  process.stdout.write(JSON.stringify({ error: { message, path: '/timezone' } }))
  process.exitCode = 2
}
