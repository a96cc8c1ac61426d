-- Why no model server can use the weights of a version, although they are unchanged since it was created.
alter table model_version add column unusable text;
