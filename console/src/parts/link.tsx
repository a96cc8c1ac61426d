import { createLink } from '@tanstack/react-router'
import type { AnchorHTMLAttributes } from 'react'

function Anchor({ children, ...props }: AnchorHTMLAttributes<HTMLAnchorElement>) {
  return (
    <a className="link" {...props}>
      {children}
    </a>
  )
}

/** A link to another page of the console. */
export const PageLink = createLink(Anchor)
