const MICRO = 1_000_000

/** Micro-credits of a price; `creditUsd` is what one credit is worth (`HEARTH_CREDIT_USD`). */
export const usdToMicro = (usd: number, creditUsd: number): number =>
  Math.round(Number(((usd / creditUsd) * MICRO).toPrecision(15)))

/** A price in US dollars, without the last digits that dividing leaves behind. */
export const microToUsd = (micro: number, creditUsd: number): number =>
  Number(((micro / MICRO) * creditUsd).toPrecision(15))
