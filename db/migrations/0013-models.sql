-- An account's model is identified by its name: the next version with that name is added to it.
create unique index model_name on model (account_id, name);
