import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * The real RocksDB as a program that executes commands from standard input, line by line.
 *
 * <p>Words are separated by single spaces. Keys and values are hexadecimal; "-" denotes an empty
 * key or value. FAMILY is the name of a column family. OPTIONS is an option string of RocksDB,
 * "name=value;name=value", without spaces.
 *
 * <pre>
 * a session
 *   directory PATH                      begins the description of the database in PATH
 *   database OPTIONS                    sets options of the database
 *   database-path PATH BYTES            adds an entry of db_paths
 *   family FAMILY OPTIONS               adds a column family; "default" always exists
 *   family-path FAMILY PATH BYTES       adds an entry of a column family's cf_paths
 *   load                                instead takes options and column families from the newest
 *                                       OPTIONS file; every name in it must be known, it decides
 *                                       whether missing parts are created, and it does not list
 *                                       db_paths
 *   open                                opens the database, creating missing parts
 *   open-existing                       opens the database; nothing may be missing
 *   open-read-only                      opens the database for reading; another process may be
 *                                       writing to it
 *   close                               closes the database
 *   destroy                             removes the described database instead of opening it
 *
 * writes
 *   put FAMILY KEY VALUE
 *   merge FAMILY KEY OPERAND
 *   delete FAMILY KEY
 *   single-delete FAMILY KEY
 *   delete-range FAMILY FROM TO
 *   timed-put FAMILY KEY VALUE TIME     a value with the time of its write, in seconds since 1970
 *   begin, commit                       the writes between these two commands are one batch
 *   fill FAMILY COUNT SPACE SIZE SEED   puts COUNT random keys out of SPACE possible ones, with
 *                                       values of SIZE bytes that compress to half
 *   log on|off                          whether writes go to the write-ahead log
 *   sync on|off                         whether writes are synced
 *
 * upkeep
 *   flush FAMILY                        flushes and waits
 *   compact FAMILY                      compacts everything, including the last level
 *   compact-to FAMILY LEVEL             compacts everything into that level
 *   change FAMILY OPTIONS               sets options that may change while the database is open
 *   create FAMILY OPTIONS
 *   drop FAMILY
 *   checkpoint PATH                     creates a checkpoint in PATH
 *   flush-wal                           writes the logged records to the file, and syncs it
 *   snapshot                            takes a snapshot
 *   release                             releases all snapshots
 *
 * external tables
 *   external FILE FAMILY                begins a table; put, merge and delete then write to it
 *   finish                              completes the table
 *   ingest FAMILY copy|move|behind FILE...   ingests tables, the newest last
 *
 * reading
 *   dump FILE                           writes every live entry of every family to FILE: the
 *                                       lengths of name, key and value in 4 bytes each,
 *                                       little-endian, then name, key and value
 *   verify                              checks every checksum
 *   property FAMILY NAME                records a property for the answer
 *   list-families                       records the names of the column families, even of a
 *                                       database that is not open
 *   live-files                          records the tables, each as a comma-separated line:
 *                                       family, level, path, size, smallest and largest key,
 *                                       smallest and largest sequence number, number of entries
 *                                       and number of deletions
 *   updates SEQUENCE FILE               writes the batches since that sequence number to FILE: the
 *                                       length of each in 4 bytes, little-endian, then its bytes;
 *                                       records "end", or the error that ended the updates
 *   sequence                            records the latest sequence number
 *
 * answer                                prints "ok" and the recorded lines, or "error" and the
 *                                       first error since the last answer; after an error, all
 *                                       lines up to the answer are skipped and the database is
 *                                       closed
 * </pre>
 */
public final class Oracle {
  private Oracle() {}

  public static void main(String[] arguments) throws IOException {
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
    Database database = new Database();
    String error = null;
    String line;
    while ((line = input.readLine()) != null) {
      if (line.equals("answer")) {
        System.out.println(error == null ? "ok " + database.takeRemembered() : "error " + error);
        System.out.flush();
        error = null;
      } else if (error == null) {
        try {
          database.run(line.split(" ", -1));
        } catch (Exception exception) {
          String shown = line.length() > 200 ? line.substring(0, 200) + "..." : line;
          error = (shown + ": " + exception).replace('\n', ' ');
          database.abandon();
        }
      }
    }
    database.abandon();
  }
}
