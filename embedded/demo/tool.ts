import { type Hearth, HearthError } from '../../client/index.ts'
import { infer } from './steps.ts'

const TOOL = 'query_table'

/** The rows that a query over a table returns, or why this machine runs no tools. */
export type QueryResult = { rows: Record<string, unknown>[] } | { refused: string }

/** Runs a query over a CSV file with the catalog tool `query_table`. */
export async function queryTable(h: Hearth, csv: Buffer, sql: string): Promise<QueryResult> {
  try {
    const file = new Blob([new Uint8Array(csv)], { type: 'text/csv' })
    const { input_url } = await h.endpoints.uploadInput(TOOL, { file, filename: 'diabetes.csv' })
    const example_input = { file_url: input_url, sql }
    const { result } = await infer(h, { endpoint_id: TOOL, name: TOOL, example_input })
    return { rows: (result as { rows: Record<string, unknown>[] }).rows }
  } catch (err) {
    if (err instanceof HearthError && err.code === 'no_capacity') return { refused: err.message }
    throw err
  }
}
