/** The fields that describe a model's input and output to its callers; both versions and endpoints have them. */
export interface Listing {
  input_schema: Record<string, unknown>
  output_schema: Record<string, unknown>
  example_input: Record<string, unknown>
  example_output: Record<string, unknown>
}

/** Returns the columns of a listing as they are inserted. */
export const listingColumns = (listing: Listing): Record<keyof Listing, string> => ({
  input_schema: JSON.stringify(listing.input_schema),
  output_schema: JSON.stringify(listing.output_schema),
  example_input: JSON.stringify(listing.example_input),
  example_output: JSON.stringify(listing.example_output),
})
