// The health check of the gateway's container; an argument names another gateway.
import { request } from 'undici'

const [url = 'http://127.0.0.1:8420'] = process.argv.slice(2)
const answer = await request(`${url}/api/builder/v1/health`).catch(() => undefined)
process.exit(answer?.statusCode === 200 ? 0 : 1)
