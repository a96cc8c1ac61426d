-- Why no model server can use the weights of a version, though they are what they were when it was made.
alter table model_version add column unusable text;
