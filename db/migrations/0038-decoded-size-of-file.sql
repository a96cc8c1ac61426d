-- The object that decoded_bytes was measured of: a process that does not know the measure may put another in its place.
alter table dataset add column decoded_object_key text;
update dataset set decoded_object_key = object_key where decoded_bytes is not null;
