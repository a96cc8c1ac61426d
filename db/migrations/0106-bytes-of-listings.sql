-- The bytes of the texts of an endpoint that its owner or its training run wrote, so that a list can bound its pages
-- without reading them. `octet_length` of a compressed value would have to decompress it for each list.
alter table endpoint add column listing_bytes integer generated always as (
  octet_length(description) + octet_length(input_schema::text) + octet_length(output_schema::text)
  + octet_length(example_input::text) + octet_length(example_output::text) + octet_length(examples::text)
) stored;
