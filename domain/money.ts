/** Micro-credits of one US dollar: 1 credit is 0.01 USD. */
const MICRO_PER_USD = 100_000_000

export const usdToMicro = (usd: number): number => Math.round(usd * MICRO_PER_USD)

export const microToUsd = (micro: number): number => micro / MICRO_PER_USD
