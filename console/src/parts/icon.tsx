/** Drawn on a 24-unit grid with a stroke width of 2. */
const PATHS = {
  overview: 'M4 4h7v9H4zM13 4h7v5h-7zM13 11h7v9h-7zM4 15h7v5H4z',
  runs: 'M4 19 9 11l4 4 7-11M4 21h16',
  models: 'M12 3 4 7.5v9L12 21l8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9',
  endpoints: 'M5 12h14M13 6l6 6-6 6',
  datasets: 'M4 6c0-4 16-4 16 0v12c0 4-16 4-16 0zM4 6c0 4 16 4 16 0M4 12c0 4 16 4 16 0',
  tasks: 'M4 6h2M10 6h10M4 12h2M10 12h10M4 18h2M10 18h10',
  webhooks: 'M8 17a4 4 0 1 1-3-6M9 7a4 4 0 1 1 6 4M16 17h-7M12 8l4 8',
  agents: 'M5 8h14v11H5zM12 8V4M9 13h.01M15 13h.01M2 13v2M22 13v2',
  account: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21c0-9 16-9 16 0',
  nodes: 'M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01',
  accounts: 'M9 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM3 20c0-8 12-8 12 0M16 5a3 3 0 0 1 0 6M17 14c3 0 4 3 4 6',
  switch: 'M12 3v9M7 6a8 8 0 1 0 10 0',
  audit: 'M6 3h9l4 4v14H6zM9 12h7M9 16h7',
  queues: 'M4 5h16v4H4zM4 11h11v3H4zM4 16h7v3H4z',
  sun: 'M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1 1M18 18l1 1M19 5l-1 1M6 18l-1 1',
  copy: 'M8 8h12v12H8zM4 16V4h12',
  check: 'M4 12l5 5L20 6',
  out: 'M10 4H4v16h6M14 8l4 4-4 4M18 12H9',
} as const
export type IconName = keyof typeof PATHS

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth={2}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  )
}
