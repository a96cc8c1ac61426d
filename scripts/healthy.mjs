// The health check of the gateway's container.
const answer = await fetch('http://127.0.0.1:8420/api/builder/v1/health').catch(() => undefined)
process.exit(answer?.ok === true ? 0 : 1)
