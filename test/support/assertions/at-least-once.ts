type Activities = Record<string, (...args: never[]) => Promise<unknown>>

/** Runs every activity twice, as when a worker dies after the work but before its reply. */
export const runTwice = <A extends object>(activities: A): A =>
  wrap(activities, async (run) => {
    await run()
    return run()
  })

/** Makes one activity fail permanently and leaves the others unchanged, to test every unwind path. */
export const withFailingActivity = <A extends object>(
  activities: A,
  name: keyof A & string,
  error: Error,
): A => ({
  ...activities,
  [name]: () => Promise.reject(error),
})

function wrap<A extends object>(activities: A, around: (run: () => Promise<unknown>) => Promise<unknown>): A {
  const entries = Object.entries(activities as Activities).map(([name, activity]) => [
    name,
    (...args: never[]) => around(() => activity(...args)),
  ])
  return Object.fromEntries(entries) as A
}
