-- One row per person and fact, sorted by person: rows of a person are together, in one file.
{{ config(materialized="external", format="parquet", location=var("target_folder") ~ "/people.parquet") }}
select person, colour
from read_parquet('{{ var("raw") }}/*.parquet')
order by person
