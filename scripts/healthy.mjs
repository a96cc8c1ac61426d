// The health check of the gateway's container.
import { request } from 'undici'

const answer = await request('http://127.0.0.1:8420/api/builder/v1/health').catch(() => undefined)
process.exit(answer?.statusCode === 200 ? 0 : 1)
