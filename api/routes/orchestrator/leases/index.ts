import { completeLease } from './complete-lease.ts'
import { failLease } from './fail-lease.ts'
import { registerCheckpoint } from './register-checkpoint.ts'
import { renewLease } from './renew-lease.ts'
import { resolveInputFiles } from './resolve-input-files.ts'
import { signLeaseUrls } from './sign-lease-urls.ts'

export const leases = [
  renewLease,
  signLeaseUrls,
  resolveInputFiles,
  registerCheckpoint,
  completeLease,
  failLease,
]
