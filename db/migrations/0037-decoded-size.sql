-- What a dataset takes in memory when it is read whole; null for those read before it was measured.
alter table dataset add column decoded_bytes bigint;
