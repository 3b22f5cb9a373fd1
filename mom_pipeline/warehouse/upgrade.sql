-- From version 1. Lists that it kept stay, of an unknown model and without a reason where it had
-- no such columns yet.
ALTER TABLE recommendations ADD COLUMN IF NOT EXISTS model VARCHAR DEFAULT '';
ALTER TABLE recommendations ADD COLUMN IF NOT EXISTS reason VARCHAR DEFAULT '';
UPDATE evaluation_metrics SET ranking = 'components' WHERE ranking = 'classes';
DROP TABLE IF EXISTS item_support;
