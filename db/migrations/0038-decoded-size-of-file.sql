-- The object whose decoded_bytes were measured: an older process may replace the object without measuring the new one.
alter table dataset add column decoded_object_key text;
update dataset set decoded_object_key = object_key where decoded_bytes is not null;
