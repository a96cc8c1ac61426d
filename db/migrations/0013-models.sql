-- A model of an account is found by its name: the next version under that name joins it.
create unique index model_name on model (account_id, name);
