import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetTable;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** A read-only catalog of tables with versions: version V of table d.t is the Parquet in ROOT/d/t/V; the latest is "now". */
public class VersionedCatalog implements TableCatalog {
  private String name;
  private String root;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.root = options.get("root");
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Table loadTable(Identifier table) throws NoSuchTableException {
    return loadTable(table, "now");
  }

  @Override
  public Table loadTable(Identifier table, String version) throws NoSuchTableException {
    String folder = String.join("/", root, String.join("/", table.namespace()), table.name(), version);
    if (!new java.io.File(folder).isDirectory()) {
      throw new NoSuchTableException(table);
    }
    var session = org.apache.spark.sql.classic.SparkSession.active();
    return new ParquetTable(table.toString(), session, CaseInsensitiveStringMap.empty(),
        CollectionConverters.asScala(List.of(folder)).toSeq(), Option.empty(), ParquetFileFormat.class);
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    return new Identifier[0];
  }

  @Override
  public Table createTable(Identifier table, StructType schema, Transform[] partitions, Map<String, String> properties) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean dropTable(Identifier table) {
    return false;
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    throw new UnsupportedOperationException();
  }
}
