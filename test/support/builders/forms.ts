import type { AnyBody, Answer, TestApi } from '../servers/api.ts'

/** The parts of a form in order: a list is a field with several parts, and bytes are a file. */
export type Parts = Readonly<Record<string, string | readonly string[] | Buffer<ArrayBuffer> | File>>

/** Builds a form; `filename` is the name of files given as bytes. */
export function formOf(parts: Parts, filename = 'file'): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(parts)) {
    if (value instanceof File) form.append(name, value)
    else if (Buffer.isBuffer(value)) form.append(name, new File([value], filename))
    else for (const one of [value].flat()) form.append(name, one)
  }
  return form
}

/** Returns the body and the headers of a form request. */
export async function callOf(form: FormData): Promise<{ raw: Uint8Array; headers: Record<string, string> }> {
  const encoded = new Response(form)
  return {
    raw: new Uint8Array(await encoded.arrayBuffer()),
    headers: { 'content-type': encoded.headers.get('content-type') ?? '' },
  }
}

/** Uploads a file for an input of an endpoint. */
export async function uploadInput(
  { api, key }: { api: TestApi; key: string },
  endpoint: string,
  file: File,
): Promise<Answer<AnyBody>> {
  const path = `/api/builder/v1/endpoints/${endpoint}/upload-input`
  return api.call('POST', path, { key, ...(await callOf(formOf({ file }))) })
}
