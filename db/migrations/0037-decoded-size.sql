-- The memory that a dataset takes when it is read completely; null for datasets read before it was measured.
alter table dataset add column decoded_bytes bigint;
