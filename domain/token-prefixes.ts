/**
 * The prefixes of all keys, tokens and secrets that the platform issues. Logs that operators see redact anything with
 * these prefixes.
 */
export const TOKEN_PREFIX = {
  apiKey: 'hk_',
  limitedApiKey: 'hkl_',
  /** A node uses it to join. */
  nodeToken: 'hnt_',
  /** A node uses it to connect to Temporal. */
  nodeCredential: 'hgt_',
  operationsKey: 'hops_',
  evaluatorToken: 'heval_',
  webhookSecret: 'whsec_',
} as const
