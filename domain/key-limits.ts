import type { KeyLimits } from '../schemas/api-key.ts'

/** Returns whether a key with these limits may call the model of an endpoint. */
export const mayCallModel = (
  limits: Pick<KeyLimits, 'models'> | undefined,
  { id, name }: { id: string; name: string },
): boolean => !limits?.models || limits.models.includes(id) || limits.models.includes(name)
