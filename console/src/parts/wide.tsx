import type { ReactNode } from 'react'

/** A region in which a wide table scrolls; its edges show on which side the table continues (app.css). */
export const Wide = ({ label, children }: { label: string; children: ReactNode }) => (
  // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a region that scrolls has to be reachable by keyboard
  <section className="wide" aria-label={`Table of ${label}`} tabIndex={0}>
    {children}
  </section>
)
