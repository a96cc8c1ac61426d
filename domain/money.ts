const MICRO = 1_000_000

/** Converts US dollars to micro-credits; `creditUsd` is the value of one credit (`HEARTH_CREDIT_USD`). */
export const usdToMicro = (usd: number, creditUsd: number): number =>
  Math.round(Number(((usd / creditUsd) * MICRO).toPrecision(15)))

/** Converts micro-credits to US dollars, without the rounding noise of the division. */
export const microToUsd = (micro: number, creditUsd: number): number =>
  Number(((micro / MICRO) * creditUsd).toPrecision(15))

/** Converts micro-credits to credits. */
export const microToCredits = (micro: number): number => micro / MICRO

/** Converts credits to micro-credits. */
export const creditsToMicro = (credits: number): number => Math.round(credits * MICRO)
