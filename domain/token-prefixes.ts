/** The beginnings of all keys, tokens and secrets that the platform issues. Lines that operators see hide what begins so. */
export const TOKEN_PREFIX = {
  apiKey: 'hk_',
  limitedApiKey: 'hkl_',
  /** With it a node joins. */
  nodeToken: 'hnt_',
  /** With it a node reaches Temporal. */
  nodeCredential: 'hgt_',
  operationsKey: 'hops_',
  evaluatorToken: 'heval_',
  webhookSecret: 'whsec_',
} as const
