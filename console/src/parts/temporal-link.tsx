/** Leads to the workflow of a piece of work, where the platform knows the address of the Temporal UI (TEMPORAL_UI_URL). */
export function TemporalLink({ url, id }: { url: string | null; id: string | null }) {
  if (id === null) return <>none: it went to a node directly</>
  if (url === null) return <span className="mono">{id}</span>
  return (
    <a className="link mono" href={url} target="_blank" rel="noreferrer">
      {id}
    </a>
  )
}
