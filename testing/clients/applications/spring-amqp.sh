# Spring AMQP publishes no tests in its packages: these are samples of what its users write.
to=$APPS/spring-classes
rm -rf "$to" && mkdir -p "$to"
javac -nowarn -proc:none -parameters -d "$to" -cp "$APPS/spring/*" "$HERE"/spring/*.java
java -Xmx256m -cp "$to:$APPS/spring/*" org.junit.platform.console.ConsoleLauncher execute --disable-banner --disable-ansi-colors \
  --details=tree --scan-classpath="$to"
